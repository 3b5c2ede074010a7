import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Open, OpenClaims } from '../../src/stores/memory/open-claims.ts';

const step = fc.tuple(fc.constantFrom('add', 'add', 'remove', 'to end'), fc.nat({ max: 299 }));

test('the open claims are found and in order, however many share a bucket', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 300 }), fc.array(step, { maxLength: 600, size: 'max' }), (hashes, steps) => {
      const claims = new OpenClaims();
      const model = new Map<string, Open>();
      for (const [what, n] of steps) {
        const hex = `02${n}`;
        const open = model.get(hex);
        if (what === 'add' && open === undefined) {
          const added = new Open(hex, (n % hashes) - 100);
          claims.add(added);
          model.set(hex, added);
        } else if (what === 'remove' && open !== undefined) {
          claims.remove(open);
          model.delete(hex);
          expect([open.next, open.before, open.after]).toEqual([undefined, undefined, undefined]);
        } else if (what === 'to end' && open !== undefined) {
          claims.toEnd(open);
          model.delete(hex);
          model.set(hex, open);
        }
        expect(claims.get(hex, (n % hashes) - 100)).toBe(model.get(hex));
      }
      expect(claims.size).toBe(model.size);
      expect([...claims]).toEqual([...model.values()]);
      for (const [hex, open] of model) expect(claims.get(hex, open.hash)).toBe(open);
    }),
  );
});
