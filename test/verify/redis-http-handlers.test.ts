import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { readFixture } from '../../src/verify/hosts/read-fixture.ts';
import { verify } from '../../src/verify/index.ts';
import { redisMissing } from '../../src/verify/servers/redis-server.ts';

const missing = await redisMissing();

const HTTP = ['http-before-mark', 'http-in-transaction', 'ok-http-idempotency-key'];
const REDIS = [
  'redis-check-postgres-write',
  'redis-set-nx-first',
  'redis-nx-del-on-error',
  'redis-incr-effect',
  'ok-redis-lua-mark-and-effect',
];

async function verdictOf(
  name: string,
): Promise<{ readonly found: string; readonly why: unknown; readonly expected: string }> {
  const file = fileURLToPath(new URL(`../../examples/verify/${name}.ts`, import.meta.url));
  const report = await verify({ handler: file, budgetMs: 240_000 });
  const fixture = (await readFixture(file)).verify as { readonly expect?: string };
  const [conviction] = report.convictions;
  return {
    found: report.verdict === 'convicted' ? conviction!.verdict : report.verdict,
    why: report.why ?? conviction?.deviation,
    expected: fixture.expect!,
  };
}

describe('HTTP', () => {
  test.each(HTTP)(
    '%s is judged as it says',
    async name => {
      const { found, why, expected } = await verdictOf(name);
      expect(found, JSON.stringify(why)).toBe(expected);
    },
    300_000,
  );
});

describe.skipIf(missing !== undefined)(`Redis${missing === undefined ? '' : ` (${missing})`}`, () => {
  test.each(REDIS)(
    '%s is judged as it says',
    async name => {
      const { found, why, expected } = await verdictOf(name);
      expect(found, JSON.stringify(why)).toBe(expected);
    },
    300_000,
  );
});
