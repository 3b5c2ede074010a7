import { onTestFinished } from 'vitest';

/** Collects this library's warnings of one code from now on until the test ends. */
export async function warningsOf(code: string): Promise<{ read(): Promise<readonly string[]> }> {
  // Warnings arrive a tick after they were given, and those of the test before may still be on their way.
  await new Promise(resolve => setImmediate(resolve));
  const heard: string[] = [];
  const listen = (warning: Error & { code?: string }) => {
    if (warning.code === code) heard.push(warning.message);
  };
  process.on('warning', listen);
  onTestFinished(() => void process.off('warning', listen));
  return {
    async read() {
      await new Promise(resolve => setImmediate(resolve));
      return heard;
    },
  };
}
