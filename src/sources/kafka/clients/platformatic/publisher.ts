import { abortFor, closed, inChunks, type KafkaPublisher, type ProducedRecord } from '../../producer.ts';
import { ALL_REPLICAS, failureOf, MAX_BYTES, messageOf, type PlatformaticProducerLike, settings } from './producer.ts';
import type { PlatformaticLike } from './wire.ts';

export class PlatformaticPublisher implements KafkaPublisher {
  readonly #producer: PlatformaticProducerLike;
  readonly #transactional: boolean;
  #begun = false;

  constructor(kafka: PlatformaticLike, own: Readonly<Record<string, unknown>>, transactionalId: string | undefined) {
    this.#producer = new kafka.Producer(settings(own, transactionalId));
    this.#transactional = transactionalId !== undefined;
  }

  async publish(records: readonly ProducedRecord[]): Promise<void> {
    if (this.#transactional) return this.#inTransaction(records);
    try {
      await this.#send(this.#producer, records);
    } catch (error) {
      throw failureOf(error);
    }
  }

  async #inTransaction(records: readonly ProducedRecord[]): Promise<void> {
    // The first one asks for the id, and so fences whoever had it.
    const options = this.#begun ? undefined : { producerId: -1n, producerEpoch: -1 };
    const transaction = await this.#producer.beginTransaction(options).catch(error => {
      throw failureOf(error);
    });
    this.#begun = true;
    try {
      await this.#send(transaction, records);
    } catch (error) {
      return abortFor(failureOf(error), transaction, failureOf);
    }
    await transaction.commit().catch(error => {
      throw failureOf(error);
    });
  }

  async #send(by: { send(options: any): Promise<unknown> }, records: readonly ProducedRecord[]): Promise<void> {
    for (const chunk of inChunks(records, MAX_BYTES)) {
      await by.send({ messages: chunk.map(messageOf), acks: ALL_REPLICAS });
    }
  }

  close(): Promise<void> {
    return closed(this.#producer.close(true));
  }
}
