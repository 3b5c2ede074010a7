import type { BrokerName } from './brokers.ts';
import type { HandlerFactory } from './hosts/in-process-body.ts';
import type { Bounds } from './tape.ts';
import type { Trace } from './trace.ts';

/** A message as the handler gets it. For a consumer of this library: `id`, `type`, `key`, `headers` and `body`. */
export type VerifyMessage = Readonly<Record<string, unknown>>;

/** Where an environment variable of the handler leads: to a server in front of which every request is held, or a value as it is. */
export type EnvValue = 'postgres' | 'redis' | 'http' | 'sqlite' | (string & {});

/** What a module may export as `verify`, so that nothing need be said on the command line. */
export interface VerifyFixture {
  /** What is delivered. With several: in this order, one delivery each unless `batch` is set. */
  readonly message?: VerifyMessage;
  readonly messages?: readonly VerifyMessage[];
  /** SQL, or the path of a `.sql` file, relative to the module. */
  readonly schema?: string;
  /** SQL run after the schema: what is there before the first message. */
  readonly seed?: string;
  /** Default: `{ DATABASE_URL: 'postgres' }` where there is a schema, `{}` otherwise. */
  readonly env?: Readonly<Record<string, EnvValue>>;
  /** What is possible at redelivery. Default `rabbitmq`, which loses no more and no less than most. */
  readonly broker?: BrokerName;
  /** The handler gets all messages as one array. Default false. */
  readonly batch?: boolean;
  /** The handler itself calls `broker.ack()`, `.nack()` or `.commit()`: its second argument. Default false: it acks by returning. */
  readonly manualAck?: boolean;
  /** What is not compared: `audit`, `accounts.updated_at`, `*.updated_at`, `http`, `http /metrics`, `redis cache:*`. */
  readonly ignore?: readonly string[];
  /** Effects that may happen more than once: `http /metrics`, a table. They are still looked for when lost. */
  readonly accept?: readonly string[];
  /**
   * What is other in a message that its producer sends again, or a relay publishes twice: `{ offset: 43 }`. Such copies come after
   * the ack, as messages of their own. Default: nothing, and none.
   */
  readonly resent?: VerifyMessage;
  /** Whether messages must take effect in their order. Default `any`. */
  readonly order?: 'any' | 'as-sent';
  /** Keys of Redis are effects, too, and are compared without their TTLs. Default false: mostly they are marks and leases. */
  readonly compareRedis?: boolean;
  /** Keys of Redis that run out, as patterns of `KEYS`: `lock:*`. No time passes here; a dead holder would keep them for ever. */
  readonly leases?: readonly string[];
  /** The same for leases in tables of PostgreSQL: SQL after which they have run out, as `UPDATE jobs SET locked_until = now()`. */
  readonly expire?: string;
  /**
   * Records of what was done that may be gone when a late copy comes: patterns of keys of Redis that are evicted or run out
   * (`seen:*`). Then something else has to refuse the copy, such as a version in the effect itself. Default none.
   */
  readonly evicts?: readonly string[];
  /** The same for records in tables of PostgreSQL: SQL that deletes them, as `DELETE FROM processed`. */
  readonly prune?: string;
  /** What the HTTP server answers, by path or by method and path, `*` for any text. Default: 200 and `{ "ok": true }`. */
  readonly http?: Readonly<Record<string, HttpAnswer>>;
}

/** An answer from 400 on refuses the request: it has no effect. */
export interface HttpAnswer {
  /** Default 200. */
  readonly status?: number;
  /** Sent as it is where it is a string, as JSON otherwise. Default `{ ok: true }`. */
  readonly body?: unknown;
}

export interface VerifyOptions extends VerifyFixture {
  /**
   * `./src/pay.ts#onPayment`: a module, relative to the working directory or as a file URL, and what it exports; it runs
   * unmodified in processes of its own, which are killed. Or a function that makes a consumer for the servers it is told: several times faster, in this
   * process, where a crash is that nothing of the consumer gets through any more.
   */
  readonly handler: string | HandlerFactory;
  /** Most of each kind of trouble in one execution. Default: two in all, at most one crash and one cut connection. */
  readonly bounds?: Partial<Bounds>;
  /** After this long no further execution starts, in milliseconds. Default 60,000. */
  readonly budgetMs?: number;
  /** URL of a PostgreSQL on which a database may be created. Default: one is started. */
  readonly postgres?: string;
  /** URL of a Redis whose data may be deleted. Default: one is started. */
  readonly redis?: string;
  /** Plays one execution again, from a report. */
  readonly replay?: string;
  /**
   * Executions that are played at a time, each on tables of its own: from the start where it is given. Default: after 50
   * executions one a core, at most four. Always one with `redis`.
   */
  readonly concurrency?: number;
  /** Goes on after the first failure. Default false. */
  readonly keepGoing?: boolean;
  /** A handler that does nothing for this long is waiting for something that nobody holds. Default 5,000. */
  readonly thinkMs?: number;
  /** Called with the story of each execution of the search. */
  readonly onExecution?: (trace: Trace) => void;
  /** Called after each execution. */
  readonly onProgress?: (progress: VerifyProgress) => void;
}

export interface VerifyProgress {
  readonly executions: number;
  readonly perSecond: number;
  /** Everything with at most so much trouble has been tried; −1 at the start. */
  readonly completeTo: number;
}

export const DEFAULT_BOUNDS: Bounds = {
  total: 2,
  duplicates: 1,
  crashes: 1,
  faults: 1,
  inFlight: 1,
  preemptions: 2,
  clocks: 1,
  evictions: 1,
};
