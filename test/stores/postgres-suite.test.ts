import { poolSuite } from './postgres-wiring.ts';

poolSuite('pg, pipelined', true, 'read committed');
poolSuite('pg, plain pool', false, 'read committed');
