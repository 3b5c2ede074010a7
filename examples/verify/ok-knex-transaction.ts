// Both writes go through `trx`, so they commit together; the primary key lets one of two copies through.
import createKnex from 'knex';
import { fixture } from './fixture.ts';

const knex = createKnex({ client: 'pg', connection: process.env.DATABASE_URL ?? '' });

export const verify = { ...fixture, expect: 'once' };

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  await knex.transaction(async trx => {
    const marks = await trx('processed').insert({ id }).onConflict('id').ignore().returning('id');
    if (marks.length === 0) return;
    await trx('wallet').where({ id: account }).increment('balance', amount);
  });
}
