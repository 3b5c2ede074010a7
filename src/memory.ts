export {
  type MemoryBroker,
  type MemoryBrokerOptions,
  type MemoryMessage,
  type MemorySourceOptions,
  memoryBroker,
  memorySource,
} from './sources/memory/index.ts';
export { memoryStore } from './stores/memory/index.ts';
