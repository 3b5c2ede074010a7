import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { refuseUndefined, statementName, templateText } from '../../src/stores/sql/template.ts';

const tag =
  (style: 'numbered' | 'positional') =>
  (strings: TemplateStringsArray, ..._: unknown[]) =>
    templateText(strings, style);
const template = (parts: readonly string[]) =>
  Object.assign([...parts], { raw: parts }) as unknown as TemplateStringsArray;

describe('the text of a tagged template', () => {
  test('has one placeholder a value, in the order of the values, and its own parts untouched', () => {
    const part = fc.string({ unit: fc.constantFrom('a', ' ', '$', '?', "'", '`', '\\', 'é'), maxLength: 6 });
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 12 }), parts => {
        const strings = template(parts);
        expect(templateText(strings, 'numbered').text).toBe(
          parts.map((text, i) => (i === 0 ? text : `$${i}${text}`)).join(''),
        );
        expect(templateText(strings, 'positional').text).toBe(parts.join('?'));
      }),
    );
  });

  test('never holds a value', () => {
    const evil = "'; DROP TABLE wallet; --";
    expect(tag('numbered')`UPDATE wallet SET a = ${evil} WHERE b = ${1}`.text).toBe(
      'UPDATE wallet SET a = $1 WHERE b = $2',
    );
    expect(tag('positional')`UPDATE wallet SET a = ${evil} WHERE b = ${1}`.text).toBe(
      'UPDATE wallet SET a = ? WHERE b = ?',
    );
  });

  test('is made once for each place in the source, and each style has its own', () => {
    const strings = template(['SELECT ', '']);
    expect(templateText(strings, 'numbered')).toBe(templateText(strings, 'numbered'));
    expect(templateText(strings, 'positional').text).toBe('SELECT ?');
    expect(templateText(strings, 'numbered').text).toBe('SELECT $1');
  });

  test('a call instead of a tag is refused, since its text could hold values', () => {
    const call = tag('numbered') as unknown as (text: string) => unknown;
    expect(() => call("SELECT 'x'")).toThrow(expect.objectContaining({ code: 'NT_CONFIG' }));
  });
});

describe('the name of a prepared statement', () => {
  test('is the same for the same text, another for another, and short enough for the server', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (a, b) => {
        expect(statementName(a)).toMatch(/^nt_[0-9a-f]{24}$/);
        expect(statementName(a) === statementName(b)).toBe(a === b);
      }),
    );
  });
});

describe('values', () => {
  test('undefined is refused by its place, without the values beside it', () => {
    const values = ['secret', undefined, 3];
    expect(() => refuseUndefined(values, 'INSERT INTO t VALUES ($1, $2, $3)')).toThrow(
      expect.objectContaining({
        code: 'NT_CONFIG',
        message: 'sql: value 2 of "INSERT INTO t VALUES ($1, $2, $3)" is undefined; pass null to mean NULL',
      }),
    );
  });

  test('null, zero, empty and false are values', () => {
    expect(() => refuseUndefined([null, 0, '', false, Number.NaN], 'x')).not.toThrow();
  });
});
