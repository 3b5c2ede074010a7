// Finds promises that nobody awaits. Biome's rule of the same name sees those that come from this repository; this
// check also sees those of node: modules and of packages (`pool.query(…)`, `rm(…)`), whose types Biome does not read.
import { relative } from 'node:path';
import ts from 'typescript59';
import { type Check, root, Wrong } from './run.ts';

export const promisesCheck: Check = {
  name: 'no promise is left floating',
  run: async () => {
    const found = floatingPromises(program());
    if (found.length > 0) throw new Wrong(found.join('\n'));
    return undefined;
  },
};

function program(): ts.Program {
  const file = `${root}tsconfig.json`;
  const { config } = ts.readConfigFile(file, ts.sys.readFile);
  const { fileNames, options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  return ts.createProgram(fileNames, options);
}

/** One line for each statement that drops a promise. `void promise` says that this is meant. */
export function floatingPromises(program: ts.Program): string[] {
  const checker = program.getTypeChecker();
  const found: string[] = [];
  for (const file of program.getSourceFiles()) {
    if (file.isDeclarationFile || file.fileName.includes('/node_modules/')) continue;
    // Handlers that are wrong on purpose, some of them in just this way.
    if (file.fileName.startsWith(`${root}examples/verify/`)) continue;
    const visit = (node: ts.Node): void => {
      if (ts.isExpressionStatement(node) && dropsPromise(node.expression, checker)) {
        const { line, character } = file.getLineAndCharacterOfPosition(node.getStart(file));
        found.push(`${relative(root, file.fileName)}:${line + 1}:${character + 1} await this promise, or void it`);
      }
      ts.forEachChild(node, visit);
    };
    visit(file);
  }
  return found;
}

function dropsPromise(expression: ts.Expression, checker: ts.TypeChecker): boolean {
  if (ts.isParenthesizedExpression(expression)) return dropsPromise(expression.expression, checker);
  if (ts.isVoidExpression(expression) || ts.isAwaitExpression(expression)) return false;
  if (ts.isConditionalExpression(expression)) {
    return dropsPromise(expression.whenTrue, checker) || dropsPromise(expression.whenFalse, checker);
  }
  if (ts.isBinaryExpression(expression)) {
    const { kind } = expression.operatorToken;
    if (kind >= ts.SyntaxKind.FirstAssignment && kind <= ts.SyntaxKind.LastAssignment) return false;
    return dropsPromise(expression.right, checker);
  }
  return isPromise(checker.getTypeAtLocation(expression), checker) && !handlesRejection(expression);
}

/** A promise, a thenable, an array of them, or a union with one among its members. */
function isPromise(type: ts.Type, checker: ts.TypeChecker): boolean {
  if (type.isUnion()) return type.types.some(member => isPromise(member, checker));
  if (checker.isArrayType(type)) {
    return checker.getTypeArguments(type as ts.TypeReference).some(member => isPromise(member, checker));
  }
  const then = type.getProperty('then');
  if (then === undefined) return false;
  return checker.getTypeOfSymbol(then).getCallSignatures().length > 0;
}

/** `.catch(f)` and `.then(f, g)` end a chain on purpose. */
function handlesRejection(expression: ts.Expression): boolean {
  if (!ts.isCallExpression(expression) || !ts.isPropertyAccessExpression(expression.expression)) return false;
  const { text } = expression.expression.name;
  if (text === 'finally') return handlesRejection(expression.expression.expression);
  return expression.arguments.length >= (text === 'catch' ? 1 : text === 'then' ? 2 : Number.POSITIVE_INFINITY);
}
