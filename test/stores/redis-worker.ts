// Claims, renews, completes and releases at random until it is killed. Arguments: name of the client, URL, prefix.
import { encodeKey } from '../../src/identity/encoding.ts';
import { openStore, singleClients } from './redis-clients.ts';

const [name, url = '', prefix = ''] = process.argv.slice(2);
const kind = singleClients.find(one => one.name === name)!;
const { store } = await openStore(kind, url, { prefix, retentionMs: 3_600_000 });
const inbox = await store.open({ name: 'pay', signature: 's/1' });
const draw = (below: number) => Math.floor(Math.random() * below);
process.stdout.write('working\n');

async function work(): Promise<never> {
  for (;;) {
    const claims = Array.from({ length: 1 + draw(20) }, () => encodeKey(`m${draw(5_000)}`));
    const grants = await inbox.claim(claims, 1 + draw(60_000));
    const proofs = claims.flatMap((claim, i) => {
      const nonce = grants[i]!.nonce;
      return nonce === undefined ? [] : [{ claim, nonce, result: { at: i } }];
    });
    const next = draw(4);
    if (next === 0) await inbox.renew(proofs, 1 + draw(60_000));
    if (next === 1) await inbox.release(proofs);
    if (next === 2) await inbox.complete(proofs);
  }
}

await Promise.all([work(), work(), work()]);
