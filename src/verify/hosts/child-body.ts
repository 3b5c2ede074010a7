import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { type Body, type Ears, HandlerBroken } from './body.ts';
import { childEnv } from './child-env.ts';
import type { ChildSettings, FromChild } from './protocol.ts';
import { hearSqlite } from './sqlite-requests.ts';
import { SQLITE_PIPE } from './sqlite-words.ts';

const PROGRAM = new URL(`child-main${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url);
const START_WITHIN_MS = 20_000;
/** Of what the handler prints, this much is kept for the case that it does not start. */
const LAST_WORDS = 2_000;

/** The user's module in a process of its own, unmodified. Resolves when it is loaded. @throws HandlerBroken */
export async function childBody(
  settings: ChildSettings,
  env: Readonly<Record<string, string>>,
  ears: Ears,
): Promise<Body> {
  const child = fork(fileURLToPath(PROGRAM), [JSON.stringify(settings)], {
    env: childEnv(env),
    execArgv: ['--disable-warning=ExperimentalWarning', '--disable-warning=NevertwiceWarning'],
    stdio: ['ignore', 'pipe', 'pipe', 'ipc', ...(settings.sqlite === undefined ? [] : ['pipe' as const])],
  });
  if (settings.sqlite !== undefined) hearSqlite(child.stdio[SQLITE_PIPE] as Duplex, held => ears.hold(held));
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-LAST_WORDS);
    });
  }
  const ready = Promise.withResolvers<void>();
  let gone = false;
  child.on('message', (message: FromChild) => {
    if (message.say === 'ready') ready.resolve();
    else if (message.say === 'broken') ready.reject(new HandlerBroken(message.why));
    else ears.heard(message);
  });
  child.once('exit', (code, signal) => {
    gone = true;
    const how = signal ?? `exit code ${code}`;
    ready.reject(new HandlerBroken(`the process of the handler ended while it was loading (${how})${lastWords(said)}`));
    ears.ended();
  });
  child.on('error', error => ready.reject(new HandlerBroken(error.message)));
  const end = async () => {
    if (gone || child.pid === undefined) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  };
  const timer = setTimeout(
    () => ready.reject(new HandlerBroken(`the module did not load within ${START_WITHIN_MS / 1_000} s`)),
    START_WITHIN_MS,
  );
  try {
    await ready.promise;
  } catch (error) {
    await end();
    throw error;
  } finally {
    clearTimeout(timer);
  }
  return {
    // A process that is ending no longer hears.
    tell: message => void (child.connected && child.send(message, () => undefined)),
    end,
  };
}

function lastWords(said: string): string {
  const lines = said.trim().split('\n');
  const line = lines.find(text => /error/i.test(text)) ?? lines.at(-1)!;
  return line === '' ? '' : `: ${line.slice(0, 300)}`;
}
