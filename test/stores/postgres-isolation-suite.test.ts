import { poolSuite } from './postgres-wiring.ts';

poolSuite('pg at repeatable read', true, 'repeatable read');
poolSuite('pg at serializable', true, 'serializable');
