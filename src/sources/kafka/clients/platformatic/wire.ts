import type { TopicPartition } from '../../client.ts';
import type { AssignerLike } from './assigner.ts';
import type { PlatformaticProducerLike } from './producer.ts';

/** What we call of the module `@platformatic/kafka`, beside its requests, which are looked up by name and version. */
export interface PlatformaticLike {
  readonly Consumer: new (options: any) => PlatformaticConsumerLike;
  readonly Producer: new (options: any) => PlatformaticProducerLike;
  readonly cooperativeStickyAssigner: AssignerLike;
}

export interface PlatformaticConsumerLike {
  readonly memberId: string | null;
  readonly generationId: number;
  readonly assignments: readonly Assignment[] | null;
  readonly topics: { trackAll(...topics: string[]): unknown };
  readonly connections: { get(broker: any): Promise<any> };
  on(event: any, listener: (payload?: any) => void): unknown;
  metadata(options: { topics: string[]; forceUpdate?: boolean; retries?: number }): Promise<MetadataLike>;
  listApis(): Promise<readonly { readonly name: string; readonly minVersion: number; readonly maxVersion: number }[]>;
  listOffsets(options: {
    topics: string[];
    partitions: Record<string, number[]>;
    timestamp: bigint;
  }): Promise<Map<string, bigint[]>>;
  findGroupCoordinator(): Promise<number>;
  joinGroup(options: object): Promise<unknown>;
  close(force: boolean): Promise<void>;
}

export interface Assignment {
  readonly topic: string;
  readonly partitions: readonly number[];
}

export interface MetadataLike {
  readonly id: string;
  readonly brokers: ReadonlyMap<number, unknown>;
  readonly topics: ReadonlyMap<
    string,
    {
      readonly id: string;
      readonly partitionsCount: number;
      readonly partitions: readonly { readonly leader: number }[];
    }
  >;
}

/** As ListOffsets writes them. */
export const TIMESTAMP = { latest: -1n, earliest: -2n } as const;

/**
 * A consumer of theirs, with the requests of the protocol that its own methods do not offer as we need them: offsets with
 * metadata, commits under one generation and no other, fetches of single partitions.
 */
export class Wire {
  readonly #kafka: Readonly<Record<string, any>>;
  readonly consumer: PlatformaticConsumerLike;
  #versions: Promise<ReadonlyMap<string, number>> | undefined;

  constructor(kafka: PlatformaticLike, options: Readonly<Record<string, unknown>>) {
    this.#kafka = kafka as never;
    this.consumer = new kafka.Consumer(options);
  }

  /** Sends one request, in the highest version that both sides know, to a broker out of `MetadataLike.brokers`. */
  async send(api: string, broker: unknown, args: (version: number) => readonly unknown[]): Promise<any> {
    if (broker === undefined) throw new Error(`the broker to send ${api} to is not known`);
    const [version, connection] = await Promise.all([this.#version(api), this.consumer.connections.get(broker)]);
    return this.#request(api, version).async(connection, ...args(version));
  }

  async sendToCoordinator(api: string, ...args: readonly unknown[]): Promise<any> {
    const node = await this.consumer.findGroupCoordinator();
    const { brokers } = await this.consumer.metadata({ topics: [] });
    return this.send(api, brokers.get(node), () => args);
  }

  #request(api: string, version: number): any {
    return this.#kafka[`${api.charAt(0).toLowerCase()}${api.slice(1)}V${version}`]?.api;
  }

  async #version(api: string): Promise<number> {
    this.#versions ??= this.#highestVersions().catch(error => {
      this.#versions = undefined;
      throw error;
    });
    const version = (await this.#versions).get(api);
    if (version === undefined)
      throw new Error(`this broker and @platformatic/kafka have no version of ${api} in common`);
    return version;
  }

  async #highestVersions(): Promise<ReadonlyMap<string, number>> {
    const highest = new Map<string, number>();
    for (const { name, minVersion, maxVersion } of await this.consumer.listApis()) {
      let version = maxVersion;
      while (version >= minVersion && this.#request(name, version) === undefined) version--;
      if (version >= minVersion) highest.set(name, version);
    }
    return highest;
  }

  /** The offset at a timestamp of `TIMESTAMP`, for each partition in their order. */
  async offsetsAt(timestamp: bigint, partitions: readonly TopicPartition[]): Promise<readonly bigint[]> {
    const wanted: Record<string, number[]> = Object.create(null);
    for (const { topic, partition } of partitions) {
      wanted[topic] ??= [];
      wanted[topic].push(partition);
    }
    const offsets = await this.consumer.listOffsets({ topics: Object.keys(wanted), partitions: wanted, timestamp });
    return partitions.map(({ topic, partition }) => {
      const offset = offsets.get(topic)?.[partition];
      if (offset === undefined) throw new Error(`the broker does not know partition ${partition} of ${topic}`);
      return offset;
    });
  }
}

export function partitionsOf(assignments: readonly Assignment[] | null): TopicPartition[] {
  return (assignments ?? []).flatMap(({ topic, partitions }) => partitions.map(partition => ({ topic, partition })));
}

export function byTopic<T extends TopicPartition>(partitions: readonly T[]): ReadonlyMap<string, readonly T[]> {
  return Map.groupBy(partitions, ({ topic }) => topic);
}
