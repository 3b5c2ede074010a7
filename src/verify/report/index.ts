import type { Report } from '../report.ts';
import { html } from './html.ts';
import { json } from './json.ts';
import { junit } from './junit.ts';
import { mermaid } from './mermaid.ts';
import { psql } from './psql.ts';
import { terminal } from './terminal.ts';

export type Format = 'terminal' | 'json' | 'mermaid' | 'junit' | 'html' | 'psql';
export const FORMATS: readonly Format[] = ['terminal', 'json', 'mermaid', 'junit', 'html', 'psql'];

export interface RenderOptions {
  /** Columns of the terminal. Default 100. */
  readonly width?: number | undefined;
  /** Default false. */
  readonly colour?: boolean | undefined;
}

/** The report as text in one of its forms. */
export function render(report: Report, format: Format, { width = 100, colour = false }: RenderOptions = {}): string {
  // Narrower than this nothing can be read, and a terminal that says 0 does not know.
  const columns = Math.max(60, width);
  switch (format) {
    case 'terminal':
      return terminal(report, columns, colour);
    case 'json':
      return json(report);
    case 'mermaid':
      return mermaid(report);
    case 'junit':
      return junit(report, columns);
    case 'html':
      return html(report);
    case 'psql':
      return psql(report);
  }
}
