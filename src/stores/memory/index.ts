export type { MemoryClock, MemoryOptions } from './options.ts';
export { type MemoryStore, memoryStore } from './store.ts';
