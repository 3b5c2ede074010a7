// The savepoint is there for the duplicate, but stands after the effect: going back to it keeps what the copy has paid.
import postgres from 'postgres';
import { fixture } from './fixture.ts';

const sql = postgres(process.env.DATABASE_URL!);

export const verify = { ...fixture, expect: 'double', cost: 1 };

export default async function onPayment(message: typeof fixture.message) {
  await sql.begin(async tx => {
    await tx`UPDATE wallet SET balance = balance + ${message.amount} WHERE id = ${message.account}`;
    await tx
      .savepoint(point => point`INSERT INTO processed (id) VALUES (${message.id})`)
      .catch(error => {
        if (error.code !== '23505') throw error;
      });
  });
}
