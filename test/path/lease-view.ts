import type { LeaseInbox, LeaseStore } from '../../src/index.ts';
import type { memoryStore } from '../../src/memory.ts';

/** Another store on the data of this one, as another process has. Of its inboxes some calls may be other ones. */
export function viewOf(
  store: ReturnType<typeof memoryStore>,
  change: (inbox: LeaseInbox) => Partial<LeaseInbox> = () => ({}),
): LeaseStore {
  const { promise, name, capabilities, positions, letters } = store;
  return {
    promise,
    name,
    capabilities,
    positions,
    letters,
    get staleCalls() {
      return store.staleCalls;
    },
    ping: () => store.ping(),
    stats: () => store.stats(),
    close: async () => undefined,
    open: async consumer => {
      const inbox = await store.open(consumer);
      return { ...inbox, ...change(inbox) };
    },
  };
}
