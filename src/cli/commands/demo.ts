import type { Command } from '../command-line.ts';
export const command: Command = { help: '', run: async () => 0 };
