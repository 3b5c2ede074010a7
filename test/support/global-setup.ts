import type { TestProject } from 'vitest/node';
import { suiteGroups } from './services.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** URL of each running service, by its environment variable. */
    services: Readonly<Record<string, string>>;
  }
}

/**
 * Starts the services that this group of test files needs, unless the environment already names one or another group
 * has started it. Tests find the URL through `inject('services')`, their child processes through the same variable.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const needed = suiteGroups().find(group => group.name === project.name)?.services ?? [];
  const urls: Record<string, string> = {};
  const stops: (() => Promise<void>)[] = [];
  for (const service of needed) {
    let url = process.env[service.env];
    if (url === undefined) {
      const running = await service.start();
      stops.push(running.stop);
      url = running.url;
      process.env[service.env] = url;
    }
    urls[service.env] = url;
  }
  project.provide('services', urls);
  return async () => {
    await Promise.all(stops.map(stop => stop()));
  };
}
