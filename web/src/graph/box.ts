/** Position of the top left corner, and size. */
export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}
