/** Where a process can die. Those of the effect are the child's own, the others the library's points by their names. */
export const PLACES = [
  'claim before',
  'claim after',
  'handle before',
  'effect before',
  'effect after',
  'handle after',
  'settle before',
  'settle after',
] as const;
export type Place = (typeof PLACES)[number];
