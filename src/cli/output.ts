import { Console } from 'node:console';
import { Writable } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';

/** Where a command writes: its result to standard output, everything else to standard error. */
export class Output {
  /** Progress may be redrawn in place. */
  readonly isLive: boolean = process.stderr.isTTY === true;
  #drawn = 0;

  /** The result, and nothing but the result. */
  result(text: string): void {
    this.erase();
    process.stdout.write(`${text}\n`);
  }

  /** A line for a person, beside the result. */
  note(text: string): void {
    this.erase();
    process.stderr.write(`${text}\n`);
  }

  /** Draws lines over those drawn before. Only where `isLive`. */
  draw(lines: readonly string[]): void {
    const width = process.stderr.columns ?? 80;
    // A line that the terminal wraps would take two rows, and the next drawing would erase one of them.
    const fitting = lines.map(line =>
      stripVTControlCharacters(line).length < width ? line : line.slice(0, width - 1),
    );
    this.erase();
    process.stderr.write(fitting.map(line => `${line}\n`).join(''));
    this.#drawn = fitting.length;
  }

  /** Takes the drawn lines away, so that whatever is written next stands in their place. */
  erase(): void {
    if (this.#drawn === 0) return;
    process.stderr.write(`\r\x1b[${this.#drawn}A\x1b[0J`);
    this.#drawn = 0;
  }

  /** Sends what the user's module prints to standard error: standard output is for the result alone. */
  takeConsole(): void {
    const aside = new Writable({
      write: (chunk, _, done) => {
        this.erase();
        process.stderr.write(chunk);
        done();
      },
    });
    globalThis.console = new Console({ stdout: aside, stderr: aside, colorMode: false });
  }

  /**
   * Node's warnings as one line each. Left out are those that Node gives for features this program is built on
   * (node:sqlite and type stripping on older versions): the user cannot act on them.
   */
  takeWarnings(): void {
    process.removeAllListeners('warning');
    process.on('warning', ({ name, message }) => {
      if (name !== 'ExperimentalWarning') this.note(`warning: ${message.split('\n', 1)[0]}`);
    });
  }
}

/** A reader that went away early (`| head`) stops the printing, never the work. */
export function surviveClosedPipes(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', error => {
      if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error;
    });
  }
}

/** Resolves once everything written has left the process. */
export async function flushed(): Promise<void> {
  for (const stream of [process.stdout, process.stderr]) {
    await new Promise<void>(resolve => {
      if (stream.destroyed || stream.writableEnded) resolve();
      else stream.write('', () => resolve());
    });
  }
}
