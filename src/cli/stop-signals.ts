import type { Consumer } from '../create-consumer.ts';
import { EXIT } from './exit-codes.ts';
import type { Output } from './output.ts';

/** How long handlers that run when the stop comes may take to finish. */
const GRACE_MS = 10_000;
/**
 * A signal this soon after the first is the same one: npm passes a Ctrl-C on to a program that the terminal has sent it
 * to already.
 */
const ECHO_MS = 500;
/** Ids named when a stop has to abandon messages; the rest is counted. */
const NAMED = 5;

export interface Stopping {
  /** Aborts with the first signal. */
  readonly signal: AbortSignal;
  /** Of the process, once a signal has come; undefined until then. */
  readonly exitCode: number | undefined;
  /** Resolves once a stop that was asked for has said what it abandoned. Listens no more from then on. */
  finished(): Promise<void>;
}

/**
 * SIGINT and SIGTERM stop the consumer: no handler starts any more, running ones get ten seconds, what is done is acked.
 * A second signal ends the process at once, which loses nothing either: what was not acked comes again.
 */
export function stopOnSignals(
  consumer: Pick<Consumer, 'stop'>,
  output: Output,
  what = 'running handlers have',
): Stopping {
  const controller = new AbortController();
  let exitCode: number | undefined;
  let stopped: Promise<void> | undefined;
  let stoppedAtMs = 0;

  const onSignal = (signal: NodeJS.Signals) => {
    const code = signal === 'SIGTERM' ? EXIT.terminated : EXIT.interrupted;
    if (stopped !== undefined) {
      if (performance.now() - stoppedAtMs > ECHO_MS) process.exit(code);
      return;
    }
    exitCode = code;
    stoppedAtMs = performance.now();
    output.note(`stopping: ${what} ${GRACE_MS / 1_000} s to finish; the same signal again ends at once`);
    controller.abort();
    stopped = consumer.stop({ withinMs: GRACE_MS }).then(({ abandoned }) => {
      if (abandoned.length > 0)
        output.note(`abandoned ${named(abandoned)}: rolled back and not acked, so they come again`);
    });
  };
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  return {
    signal: controller.signal,
    get exitCode() {
      return exitCode;
    },
    async finished() {
      await stopped;
      process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
    },
  };
}

function named(ids: readonly string[]): string {
  const shown = ids.slice(0, NAMED).join(', ');
  const more = ids.length > NAMED ? ` and ${ids.length - NAMED} more` : '';
  return `${ids.length} ${ids.length === 1 ? 'message' : 'messages'} (${shown}${more})`;
}
