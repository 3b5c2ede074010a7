// Loads a module and says what it exports as `verify`.
import { resolveOwnPackage } from '../../cli/own-package.ts';
import { whyBroken } from './why-broken.ts';

const url = process.argv[2]!;
resolveOwnPackage();
try {
  const { verify } = (await import(url)) as { verify?: unknown };
  process.send?.({ verify });
} catch (error) {
  process.send?.({ broken: await whyBroken(error, url) });
}
