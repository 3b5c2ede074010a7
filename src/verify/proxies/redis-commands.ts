import { createHash } from 'node:crypto';
import type { Reply } from '../gate.ts';
import { oneLine } from './one-line.ts';
import type { RespValue } from './redis-resp.ts';

const ARGUMENT = 40;
const LINE = 160;
const REPLY = 80;

export function nameOf(args: readonly Buffer[]): string {
  return args[0]?.toString('latin1').toUpperCase() ?? '';
}

function subcommandOf(args: readonly Buffer[]): string {
  return args[1]?.toString('latin1').toUpperCase() ?? '';
}

/** Of the connection, or of the server as such: it reads and writes nothing of the handler's. */
const QUIET = new Set(
  'HELLO AUTH CLIENT SELECT PING ECHO INFO COMMAND QUIT RESET READONLY READWRITE ASKING CLUSTER CONFIG MEMORY LATENCY UNWATCH DISCARD MULTI MONITOR'.split(
    ' ',
  ),
);
const SUBSCRIBES = new Set(['SUBSCRIBE', 'PSUBSCRIBE', 'SSUBSCRIBE', 'UNSUBSCRIBE', 'PUNSUBSCRIBE', 'SUNSUBSCRIBE']);
const BLOCKS = new Set('BLPOP BRPOP BLMOVE BRPOPLPUSH BLMPOP BZPOPMIN BZPOPMAX BZMPOP WAIT WAITAOF'.split(' '));

export function isQuiet(args: readonly Buffer[]): boolean {
  const name = nameOf(args);
  // Scripts are code: to have them there twice is to have them once.
  if (name === 'SCRIPT' || name === 'FUNCTION') return ['LOAD', 'EXISTS', 'LIST'].includes(subcommandOf(args));
  return QUIET.has(name) || SUBSCRIBES.has(name);
}

export function isSubscribe(args: readonly Buffer[]): boolean {
  return SUBSCRIBES.has(nameOf(args));
}

/** The server may answer long after it has heard it. */
export function mayBlock(args: readonly Buffer[]): boolean {
  const name = nameOf(args);
  if (name !== 'XREAD' && name !== 'XREADGROUP') return BLOCKS.has(name);
  return args.some(arg => arg.toString('latin1').toUpperCase() === 'BLOCK');
}

/**
 * What it asks for, on one line. A script is told by the beginning of its digest, whether it is sent or only the digest:
 * clients send it the first time, and what a consumer asks for must not depend on what it did before.
 */
export function textOf(args: readonly Buffer[]): string {
  const name = nameOf(args);
  const [, script, ...rest] = args;
  if (/^EVAL(SHA)?(_RO)?$/.test(name) && script !== undefined) {
    const digest = name.startsWith('EVALSHA')
      ? script.toString('latin1')
      : createHash('sha1').update(script).digest('hex');
    return oneLine([name.replace('SHA', ''), digest.slice(0, 8).toLowerCase(), ...rest.map(argument)].join(' '), LINE);
  }
  return oneLine([name, ...args.slice(1).map(argument)].join(' '), LINE);
}

function argument(bytes: Buffer): string {
  const text = bytes.toString('utf8');
  if (/[\uFFFD\p{Cc}]/u.test(text.replace(/[\n\r\t]/g, ' '))) return `<${bytes.length} bytes>`;
  const line = oneLine(text, ARGUMENT);
  return line === '' || line.includes(' ') ? `'${line}'` : line;
}

/** What a reply came to, for people. */
export function replyOf(value: RespValue): Reply {
  const failed = isError(value) || (value.type === '*' && value.items.some(isError));
  return { text: oneLine(shown(value), REPLY), failed };
}

export function isError({ type }: RespValue): boolean {
  return type === '-' || type === '!';
}

function shown(value: RespValue): string {
  const { type, text, items } = value;
  switch (type) {
    case '_':
      return '(nil)';
    case '#':
      return text.toString() === 't' ? 'true' : 'false';
    case '=':
      return argument(text.subarray(4));
    case '$':
      return argument(text);
    case '%':
      return `{${items.map((item, i) => `${shown(item)}${i % 2 === 0 ? ': ' : i < items.length - 1 ? ', ' : ''}`).join('')}}`;
    case '*':
    case '~':
    case '>':
      return `[${items.map(shown).join(', ')}]`;
    default:
      return text.toString('utf8');
  }
}
