import type { Lane, ReceiveOptions, Source, SourceCapabilities } from '../../ports/source.ts';
import { WaitList } from '../wait-list.ts';
import type { Group, Member } from './group.ts';

/** The source port over a group: joins at the first `next()`, leaves at `return()`. */
export function memberSource(capabilities: SourceCapabilities, groupOf: (consumer: string) => Group): Source {
  let latest: Group | undefined;
  return {
    name: 'memory',
    capabilities,
    receive: options => ({
      [Symbol.asyncIterator]: () => {
        latest = groupOf(options.consumer);
        return membership(capabilities, options, latest);
      },
    }),
    lag: () => latest && { amount: latest.pending, unit: 'messages' },
  };
}

// Not a generator: that would run its `finally`, and so give up the lanes, when it ends because of the signal. The
// lanes must live until the caller has finished with them and says so with `return()`.
function membership(capabilities: SourceCapabilities, options: ReceiveOptions, group: Group): AsyncIterator<Lane> {
  const { signal } = options;
  const member: Member = { ...capabilities, stopping: signal, offered: [], changed: new WaitList() };
  let state: 'new' | 'joined' | 'left' = 'new';
  return {
    async next() {
      if (state === 'new' && !signal.aborted) {
        state = 'joined';
        group.join(member);
      }
      while (state === 'joined' && !signal.aborted) {
        const lane = group.nextLane(member);
        if (lane !== undefined) return { done: false, value: lane };
        if (member.finite && group.pending === 0) break;
        await member.changed.wait(signal);
      }
      return { done: true, value: undefined };
    },
    async return() {
      state = 'left';
      group.leave(member);
      member.changed.wakeAll();
      return { done: true, value: undefined };
    },
  };
}
