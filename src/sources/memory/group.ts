import type { Clock } from '../../ports/clock.ts';
import type { Lane } from '../../ports/source.ts';
import type { WaitList } from '../wait-list.ts';
import { Cursor } from './cursor.ts';
import { MemoryLane } from './lane.ts';
import type { MemoryRecord } from './message.ts';

/** One running `receive()`: a member of a group, with the lanes that it owns and those it was not yet told of. */
export interface Member {
  readonly retryLater: boolean;
  readonly finite: boolean;
  readonly stopping: AbortSignal;
  readonly offered: MemoryLane[];
  readonly changed: WaitList;
}

export interface GroupOptions {
  readonly topic: string;
  readonly logs: readonly (readonly MemoryRecord[])[];
  readonly clock: Clock;
  loseAck(): boolean;
  onSettle(): void;
}

/**
 * Readers that share the partitions of a topic. Assignment is eager: whenever it changes, every lane is revoked first
 * and each partition starts again, at its lowest unsettled offset, with whoever owns it now.
 */
export class Group {
  readonly cursors: readonly Cursor[];
  readonly #options: GroupOptions;
  readonly #members: Member[] = [];
  readonly #owners: (Member | undefined)[];
  readonly #lanes: (MemoryLane | undefined)[];
  #rotation = 0;

  constructor(options: GroupOptions) {
    this.#options = options;
    this.cursors = options.logs.map((log, partition) => new Cursor(partition, options.topic, log));
    this.#owners = this.cursors.map(() => undefined);
    this.#lanes = this.cursors.map(() => undefined);
  }

  get pending(): number {
    return this.cursors.reduce((sum, cursor) => sum + cursor.pending, 0);
  }

  join(member: Member): void {
    this.#members.push(member);
    this.#assign();
  }

  leave(member: Member): void {
    const at = this.#members.indexOf(member);
    if (at === -1) return;
    this.#members.splice(at, 1);
    this.#assign();
  }

  /** Takes every lane away and gives the partitions out again; with several members each goes to another one. */
  rebalance(): void {
    this.#rotation++;
    this.#assign();
  }

  /** To be called when a partition got something to hand out. */
  refresh(): void {
    for (const cursor of this.cursors) cursor.changed.wakeAll();
    this.#offerLanes();
  }

  /** The next lane of a member, or undefined when it has to wait for one. */
  nextLane(member: Member): Lane | undefined {
    for (let lane = member.offered.shift(); lane !== undefined; lane = member.offered.shift()) {
      if (!lane.over) return lane;
    }
    return undefined;
  }

  #assign(): void {
    for (const lane of this.#lanes) lane?.revoke();
    // A member that is stopping is given nothing new, although it has not left yet.
    const members = this.#members.filter(member => !member.stopping.aborted);
    for (let p = 0; p < this.#owners.length; p++) {
      this.#owners[p] = members.length === 0 ? undefined : members[(p + this.#rotation) % members.length];
    }
    this.#offerLanes();
  }

  #offerLanes(): void {
    for (const [p, cursor] of this.cursors.entries()) {
      const owner = this.#owners[p];
      if (owner === undefined || this.#lanes[p]?.over === false) continue;
      if (owner.finite && cursor.pending === 0) continue;
      const lane = this.#laneFor(owner, cursor);
      this.#lanes[p] = lane;
      owner.offered.push(lane);
    }
    for (const member of this.#members) member.changed.wakeAll();
  }

  #laneFor(owner: Member, cursor: Cursor): MemoryLane {
    const { topic, clock, loseAck, onSettle } = this.#options;
    return new MemoryLane({
      id: `${topic}/${cursor.partition}`,
      cursor,
      clock,
      retryLater: owner.retryLater,
      finite: owner.finite,
      loseAck,
      onChange: () => {
        for (const member of this.#members) member.changed.wakeAll();
        onSettle();
      },
    });
  }
}
