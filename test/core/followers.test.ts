import fc from 'fast-check';
import { expect, test } from 'vitest';
import { splitFollowers } from '../../src/core/followers.ts';

const copies = fc
  .array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 30 })
  .map(ids => ids.map((id, at) => ({ id, at })));

test('C07: the first copy of each id claims, the others follow it in order, and none is lost', () => {
  fc.assert(
    fc.property(copies, list => {
      const { firsts, followersOf } = splitFollowers(list, item => item.id);
      expect(firsts).toEqual(list.filter(item => list.findIndex(other => other.id === item.id) === item.at));
      for (const first of firsts) {
        const followers = list.filter(item => item.id === first.id && item !== first);
        expect(followersOf.get(first) ?? []).toEqual(followers);
        expect(followersOf.has(first)).toBe(followers.length > 0);
      }
      expect(firsts.length + [...followersOf.values()].flat().length).toBe(list.length);
    }),
  );
});
