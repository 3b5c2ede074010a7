// The mark goes through `trx`, the effect through `knex`, which is another connection: a rollback takes only the mark back.
import createKnex from 'knex';
import { fixture } from './fixture.ts';

const knex = createKnex({ client: 'pg', connection: process.env.DATABASE_URL ?? '' });

export const verify = { ...fixture, expect: 'double', cost: 1 };

export default async function onPayment({ id, account, amount }: typeof fixture.message) {
  await knex.transaction(async trx => {
    const marks = await trx('processed').insert({ id }).onConflict('id').ignore().returning('id');
    if (marks.length === 0) return;
    await knex('wallet').where({ id: account }).increment('balance', amount);
  });
}
