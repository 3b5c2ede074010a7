import type { Payment } from '../load.ts';

/** A statement that the client keeps prepared under its name. */
export interface Named {
  readonly name: string;
  readonly text: string;
}

/** The work on one message, for everybody alike. */
export function credit(schema: string): Named & { with(payment: Payment): Named & { values: number[] } } {
  const named = { name: 'credit', text: `update ${schema}.wallet set balance = balance + $2 where id = $1` };
  return { ...named, with: ({ wallet, amount }) => ({ ...named, values: [wallet, amount] }) };
}

/** The work on a whole batch in one statement, for everybody alike. Wallets in order, so that two batches never deadlock. */
export function creditAll(schema: string): { with(payments: readonly Payment[]): Named & { values: number[][] } } {
  const named = {
    name: 'credit-all',
    text: `update ${schema}.wallet as w set balance = w.balance + p.amount
from (select id, sum(amount) as amount from unnest($1::int[], $2::bigint[]) as u(id, amount) group by id order by id) as p
where w.id = p.id`,
  };
  return {
    with: payments => ({
      ...named,
      values: [payments.map(payment => payment.wallet), payments.map(payment => payment.amount)],
    }),
  };
}

/** The deduplication of the hand-written batch loops: which of these ids are new? */
export function claim(schema: string): { with(ids: readonly string[]): Named & { values: unknown[] } } {
  const named = {
    name: 'claim',
    text: `insert into ${schema}.processed (consumer, message_id) select $1, id from unnest($2::uuid[]) as id
on conflict do nothing returning message_id`,
  };
  return { with: ids => ({ ...named, values: ['wallet', ids] }) };
}
