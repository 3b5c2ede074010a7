/**
 * What outlives a process that dies in a handler: which lanes were at work, and, once one of them is looked at closely, which
 * messages were tried. Nothing of it is asked for message by message while lanes are left as they should be.
 */
export interface Attempts {
  /** `owner` begins to work on the lane. Resolves with the one before where that has not left it: it died, or still is at work. */
  enter(consumer: string, lane: string, owner: string): Promise<string | undefined>;
  /** Nothing of the lane is in work any more. Does nothing where somebody else has entered since. */
  leave(consumer: string, lane: string, owner: string): Promise<void>;
  /** One try more whose end nobody knows yet, committed. How many such there are, this one included. `key` is the claim's hex. */
  begin(consumer: string, key: string): Promise<number>;
  /** The tries of a message have ended, well or not. */
  end(consumer: string, key: string): Promise<void>;
}
