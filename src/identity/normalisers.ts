import type { Normaliser } from './identity.ts';

const UUID_SPELLING =
  /^(?:\{([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\}|(?:urn:uuid:)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}))$/i;

/**
 * One id for all spellings of a UUID: lower case, without braces or `urn:uuid:`. What is not a UUID passes unchanged.
 * For producers that disagree on the spelling; without it `3F2B…` and `3f2b…` are two ids in every store.
 */
export const lowerCaseUuid: Normaliser = Object.assign(
  (id: string): string => {
    // 36 characters, 38 in braces, 45 behind urn:uuid:
    if (id.length !== 36 && id.length !== 38 && id.length !== 45) return id;
    const match = UUID_SPELLING.exec(id);
    return match === null ? id : (match[1] ?? match[2] ?? id).toLowerCase();
  },
  { signature: 'lower-case-uuid' },
);

/**
 * Unicode normalisation form C: "café" typed as four characters and as five code points is one id. Without it they are
 * two in every store. Does not fold case, width or look-alikes.
 */
export const nfc: Normaliser = Object.assign((id: string): string => id.normalize('NFC'), { signature: 'nfc' });
