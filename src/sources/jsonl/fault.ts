/**
 * Why a line cannot be read, as the end of a sentence about it: `is not JSON`. Never shows what the line holds, since
 * the text goes to logs. Caught inside this source; the delivery then carries the text.
 */
export class Fault extends Error {
  constructor(problem: string) {
    super(problem);
    this.name = 'Fault';
  }
}
