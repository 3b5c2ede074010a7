export { type DeliveryResult, type Held, type TestConsumer, type TestMessage, testConsumer } from './test-consumer.ts';
