import assert from 'node:assert/strict';
import type { Claim, LeaseGrant, LeaseInbox, LeaseStore } from '../../ports/store.ts';
import { claimOf, fingerprints, letterOf, pause, type Register, registration, type StoreHarness } from './support.ts';

const LEASE_MS = 60_000;
// For tests whose lease must run out, on stores whose clock nobody can move.
const SHORT_MS = 150;

/** The claim machine of a lease store: absent → claimed → done. */
export function leaseTests(test: Register<LeaseStore>): void {
  test('a claim is fresh with nonce and token, then busy until the lease ends', async ({ store }) => {
    const inbox = await store.open(registration());
    const before = Date.now();
    const first = await claimOne(inbox, claimOf('m1'));
    assert.equal(first.answer.answer, 'fresh');
    assert.ok(first.nonce !== undefined && first.token !== undefined && first.token > 0n);
    const { answer, nonce, token } = await claimOne(inbox, claimOf('m1'));
    assert.equal(answer.answer, 'busy');
    const until = answer.answer === 'busy' ? answer.until : undefined;
    assert.ok(until === undefined || +until > before + LEASE_MS / 2, `busy until ${until}`);
    assert.deepEqual([nonce, token], [undefined, undefined]);
  });

  test('grants come in the order of the batch; the second copy in it is busy', async ({ store }) => {
    const inbox = await store.open(registration());
    await claimOne(inbox, claimOf('m2'));
    const grants = await inbox.claim([claimOf('m3'), claimOf('m2'), claimOf('m1'), claimOf('m3')], LEASE_MS);
    assert.deepEqual(
      grants.map(grant => grant.answer.answer),
      ['fresh', 'busy', 'fresh', 'busy'],
    );
  });

  test('C84: of 50 claims at once, one wins', async harness => {
    const consumer = registration();
    const inbox = await harness.store.open(consumer);
    const other = await (await second(harness)).open(consumer);
    const grants = await Promise.all(
      Array.from({ length: 50 }, (_, i) => claimOne(i % 2 ? inbox : other, claimOf('m1'))),
    );
    const answers = grants.map(grant => grant.answer.answer).sort();
    assert.deepEqual(answers, [...Array<string>(49).fill('busy'), 'fresh']);
  });

  test('a completed claim is a duplicate, with its result and time', async ({ store }) => {
    const inbox = await store.open(registration());
    const owner = await claimOne(inbox, claimOf('m1'));
    assert.deepEqual(await inbox.complete([item(claimOf('m1'), owner, { charge: 'ch_1' })]), [true]);
    const { answer } = await claimOne(inbox, claimOf('m1'));
    assert.equal(answer.answer, 'duplicate');
    if (answer.answer !== 'duplicate') return;
    assert.ok(answer.at instanceof Date);
    assert.deepEqual(answer.result, { charge: 'ch_1' });
  });

  test('a released claim is fresh at once, with a higher token', async ({ store }) => {
    const inbox = await store.open(registration());
    const first = await claimOne(inbox, claimOf('m1'));
    assert.deepEqual(await inbox.release([item(claimOf('m1'), first)]), [true]);
    const second = await claimOne(inbox, claimOf('m1'));
    assert.equal(second.answer.answer, 'fresh');
    assert.ok(tokenOf(second) > tokenOf(first));
    assert.deepEqual(await inbox.release([item(claimOf('m1'), first)]), [false]);
  });

  test('C80 C85: a lease that ran out is taken over with a higher token, and the old owner is refused', async harness => {
    const inbox = await harness.store.open(registration());
    const claim = claimOf('m1');
    const old = await claimOne(inbox, claim, SHORT_MS);
    await passTime(harness, SHORT_MS + 1);
    const owner = await claimOne(inbox, claim);
    assert.equal(owner.answer.answer, 'fresh');
    assert.ok(tokenOf(owner) > tokenOf(old));
    assert.notEqual(owner.nonce, old.nonce);
    assert.deepEqual(await inbox.complete([item(claim, old, 'stale')]), [false]);
    assert.deepEqual(await inbox.release([item(claim, old)]), [false]);
    assert.equal((await claimOne(inbox, claim)).answer.answer, 'busy');
    assert.deepEqual(await inbox.complete([item(claim, owner, 'mine')]), [true]);
    assert.deepEqual(await inbox.complete([item(claim, old, 'stale')]), [false]);
    assert.deepEqual(await inbox.release([item(claim, owner)]), [false]);
    const { answer } = await claimOne(inbox, claim);
    assert.equal(answer.answer === 'duplicate' ? answer.result : answer.answer, 'mine');
  });

  test('an owner whose lease ran out but whom nobody replaced may still complete', async harness => {
    const inbox = await harness.store.open(registration());
    const owner = await claimOne(inbox, claimOf('m1'), SHORT_MS);
    await passTime(harness, SHORT_MS + 1);
    assert.deepEqual(await inbox.complete([item(claimOf('m1'), owner)]), [true]);
    assert.equal((await claimOne(inbox, claimOf('m1'))).answer.answer, 'duplicate');
  });

  test('a renewed lease lasts from then on', async harness => {
    const inbox = await harness.store.open(registration());
    const owner = await claimOne(inbox, claimOf('m1'), SHORT_MS);
    assert.deepEqual(await inbox.renew([item(claimOf('m1'), owner)], LEASE_MS), [true]);
    await passTime(harness, SHORT_MS + 1);
    assert.equal((await claimOne(inbox, claimOf('m1'))).answer.answer, 'busy');
    assert.deepEqual(await inbox.complete([item(claimOf('m1'), owner)]), [true]);
  });

  test('an owner whose lease ran out may renew until somebody replaces him', async harness => {
    const inbox = await harness.store.open(registration());
    const [kept, taken] = [claimOf('m1'), claimOf('m2')];
    const [one, two] = (await inbox.claim([kept, taken], SHORT_MS)) as [LeaseGrant, LeaseGrant];
    await passTime(harness, SHORT_MS + 1);
    const next = await claimOne(inbox, taken);
    assert.equal(next.answer.answer, 'fresh');
    assert.deepEqual(await inbox.renew([item(kept, one), item(taken, two)], LEASE_MS), [true, false]);
    assert.equal((await claimOne(inbox, kept)).answer.answer, 'busy');
    assert.deepEqual(await inbox.complete([item(kept, one), item(taken, next)]), [true, true]);
  });

  test('what is given up or done cannot be renewed', async ({ store }) => {
    const inbox = await store.open(registration());
    const claims = [claimOf('m1'), claimOf('m2')] as const;
    const [one, two] = (await inbox.claim(claims, LEASE_MS)) as [LeaseGrant, LeaseGrant];
    await inbox.release([item(claims[0], one)]);
    await inbox.complete([item(claims[1], two)]);
    assert.deepEqual(await inbox.renew([item(claims[0], one), item(claims[1], two)], LEASE_MS), [false, false]);
    assert.equal((await claimOne(inbox, claims[0])).answer.answer, 'fresh');
    assert.equal((await claimOne(inbox, claims[1])).answer.answer, 'duplicate');
  });

  test('inspect tells absent, claimed, released and done apart, and changes nothing', async ({ store }) => {
    const inbox = await store.open(registration());
    const claims = ['m1', 'm2', 'm3', 'm4', 'm5'].map(id => claimOf(id));
    const [, claimed, released, done, silent] = claims as [Claim, Claim, Claim, Claim, Claim];
    const grants = await inbox.claim([claimed, released, done, silent], LEASE_MS);
    const [first, second, third, fourth] = grants as [LeaseGrant, LeaseGrant, LeaseGrant, LeaseGrant];
    await inbox.release([item(released, second)]);
    await inbox.complete([item(done, third, { charge: 'ch_1' }), item(silent, fourth)]);
    for (let look = 0; look < 2; look++) {
      const states = await inbox.inspect(claims);
      assert.deepEqual(
        states.map(state => state.state),
        ['absent', 'claimed', 'released', 'done', 'done'],
      );
      const [, held, free, kept, bare] = states;
      assert.ok(held?.state === 'claimed' && held.token === first.token && held.until instanceof Date);
      assert.ok(free?.state === 'released' && free.token === second.token);
      assert.ok(kept?.state === 'done' && kept.at instanceof Date);
      assert.deepEqual(kept.result, { charge: 'ch_1' });
      assert.ok(bare?.state === 'done' && bare.result === undefined);
    }
    assert.equal((await claimOne(inbox, claims[0]!)).answer.answer, 'fresh');
    assert.equal((await claimOne(inbox, claimed)).answer.answer, 'busy');
  });

  test('each refused call of an owner who was replaced is counted, and no other', async harness => {
    const { store } = harness;
    const inbox = await store.open(registration());
    const claim = claimOf('m1');
    const old = await claimOne(inbox, claim, SHORT_MS);
    await passTime(harness, SHORT_MS + 1);
    const owner = await claimOne(inbox, claim);
    await claimOne(inbox, claim);
    const stale = [item(claim, old)];
    const calls = [() => inbox.renew(stale, LEASE_MS), () => inbox.complete(stale), () => inbox.release(stale)];
    for (const call of calls) {
      const before = store.staleCalls;
      assert.deepEqual(await call(), [false]);
      assert.equal(store.staleCalls, before + 1);
    }
    const before = store.staleCalls;
    await inbox.renew([item(claim, owner)], LEASE_MS);
    await inbox.complete([item(claim, owner)]);
    assert.equal(store.staleCalls, before);
  });

  test('completing and releasing many says for each whether it was done', async ({ store }) => {
    const inbox = await store.open(registration());
    const claims = [claimOf('m1'), claimOf('m2')] as const;
    const [one, two] = (await inbox.claim(claims, LEASE_MS)) as [LeaseGrant, LeaseGrant];
    const stale = { ...two, nonce: 'not-mine' };
    assert.deepEqual(await inbox.complete([item(claims[0], one), item(claims[1], stale)]), [true, false]);
    assert.deepEqual(await inbox.release([item(claims[0], one), item(claims[1], two)]), [false, true]);
  });

  test('C44: another payload is a conflict while the first is in flight and after it', async ({ store }) => {
    const inbox = await store.open(registration());
    const { a, b } = fingerprints;
    const conflict = { answer: 'conflict', stored: a, offered: b };
    const owner = await claimOne(inbox, claimOf('m1', a));
    assert.deepEqual((await claimOne(inbox, claimOf('m1', b))).answer, conflict);
    assert.equal((await claimOne(inbox, claimOf('m1', a))).answer.answer, 'busy');
    assert.equal((await claimOne(inbox, claimOf('m1'))).answer.answer, 'busy');
    await inbox.complete([item(claimOf('m1', a), owner)]);
    assert.deepEqual((await claimOne(inbox, claimOf('m1', b))).answer, conflict);
    assert.equal((await claimOne(inbox, claimOf('m1', a))).answer.answer, 'duplicate');
    assert.equal((await claimOne(inbox, claimOf('m1'))).answer.answer, 'duplicate');
  });

  test('C42: consumers do not see each other', async ({ store }) => {
    const inboxes = [await store.open(registration()), await store.open(registration())];
    for (const inbox of inboxes) assert.equal((await claimOne(inbox, claimOf('m1'))).answer.answer, 'fresh');
    for (const inbox of inboxes) assert.equal((await claimOne(inbox, claimOf('m1'))).answer.answer, 'busy');
  });

  test('C39: ids are compared byte by byte', async ({ store }) => {
    const inbox = await store.open(registration());
    const ids = ['abcd', 'ABCD', 'abcd ', '007', '7', 'é', 'e\u0301'].map(id => claimOf(id));
    const claims = [
      ...ids,
      claimOf(Uint8Array.of(1)),
      claimOf(Uint8Array.of(1, 0)),
      claimOf(new Uint8Array(300).fill(0xff)),
    ];
    const grants = await inbox.claim(claims, LEASE_MS);
    assert.ok(grants.every(grant => grant.answer.answer === 'fresh'));
    assert.equal(new Set(grants.map(grant => grant.nonce)).size, claims.length);
  });

  test('dead letters are counted once a dedupe, and block their key', async ({ store }) => {
    const consumer = registration();
    const inbox = await store.open(consumer);
    await inbox.deadLetter([letterOf('01', { key: 'account-1' }), letterOf('02')]);
    await inbox.deadLetter([letterOf('01', { key: 'account-1', attempts: 2 })]);
    const row = (await store.stats()).find(counts => counts.consumer === consumer.name);
    assert.equal(row?.deadLetters, 2);
    assert.deepEqual([...(await inbox.blockedKeys(['account-1', 'account-2']))], ['account-1']);
    assert.deepEqual([...(await (await store.open(registration())).blockedKeys(['account-1']))], []);
  });

  test('stats count what is done, not what is claimed', async ({ store }) => {
    const consumer = registration();
    const inbox = await store.open(consumer);
    const owner = await claimOne(inbox, claimOf('m1'));
    await claimOne(inbox, claimOf('m2'));
    await inbox.complete([item(claimOf('m1'), owner)]);
    const row = (await store.stats()).find(counts => counts.consumer === consumer.name);
    assert.deepEqual([row?.processed, row?.deadLetters], [1, 0]);
    assert.ok(row?.oldest instanceof Date && row.newest instanceof Date);
  });
}

async function claimOne(inbox: LeaseInbox, claim: Claim, leaseMs = LEASE_MS): Promise<LeaseGrant> {
  const [grant] = await inbox.claim([claim], leaseMs);
  return grant ?? assert.fail('a claim got no grant');
}

function item(claim: Claim, grant: LeaseGrant, result?: unknown): { claim: Claim; nonce: string; result?: unknown } {
  return { claim, nonce: grant.nonce ?? assert.fail('no nonce'), ...(result === undefined ? {} : { result }) };
}

function tokenOf(grant: LeaseGrant): bigint {
  return grant.token ?? assert.fail('no token');
}

async function second(harness: StoreHarness<LeaseStore>): Promise<LeaseStore> {
  return (await harness.secondStore?.()) ?? harness.store;
}

function passTime(harness: StoreHarness<LeaseStore>, ms: number): Promise<void> {
  return (harness.passTime ?? pause)(ms);
}
