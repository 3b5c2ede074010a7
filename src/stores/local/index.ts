export type { LocalClock, LocalOptions } from './options.ts';
export { localStore } from './store.ts';
