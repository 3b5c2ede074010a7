/** What the wallet services are told to do, once per id. */
export interface Payment {
  readonly id: string;
  readonly customer: string;
  readonly cents: number;
}
