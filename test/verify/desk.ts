import type { Held } from '../../src/verify/gate.ts';
import { until } from '../support/until.ts';

/** Where the requests of a consumer arrive that a gate holds. */
export class Desk {
  readonly held: Held[] = [];
  readonly onHeld = (held: Held): void => void this.held.push(held);

  /** The next one that is held. */
  async next(): Promise<Held> {
    await until('a request is held', () => this.held.length > 0);
    return this.held.shift()!;
  }

  /** Carries out the next one, and lets the consumer have the reply. */
  async step(): Promise<string> {
    const held = await this.next();
    const { text } = await held.send();
    held.answer();
    return `${held.text} → ${text}`;
  }

  /** Carries out everything until `work` has ended; what it asked for, with the replies. */
  async all(work: Promise<unknown>): Promise<string[]> {
    const steps: string[] = [];
    let ended = false;
    const over = work.finally(() => {
      ended = true;
    });
    over.catch(() => undefined);
    for (;;) {
      await until('a request is held, or all is done', () => this.held.length > 0 || ended);
      if (this.held.length === 0) break;
      steps.push(await this.step());
    }
    await over;
    return steps;
  }
}
