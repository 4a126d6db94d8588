// Pictures of a view, of this run and an earlier one on the same machine, side by side.
import fs from "node:fs";

const cell = 16, apart = 24; // pixels of a cell's side; levels of 255 by which its mean brightness may move

/** changed gives the share of cells that two PNG files do not have in common; blank is a page that may run scripts. */
export async function changed(blank, before, after) {
  const pictures = [before, after].map((file) => fs.readFileSync(file).toString("base64"));
  return blank.evaluate(async ([pictures, cell, apart]) => {
    const read = async (png) => {
      const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
      const width = Math.ceil(image.width / cell), height = Math.ceil(image.height / cell);
      const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
      context.drawImage(image, 0, 0);
      const { data } = context.getImageData(0, 0, image.width, image.height), cells = new Float64Array(width * height);
      for (let i = 0; i < data.length; i += 4) {
        const x = (i / 4) % image.width, y = Math.floor(i / 4 / image.width);
        cells[Math.floor(y / cell) * width + Math.floor(x / cell)] += (0.3 * data[i] + 0.6 * data[i + 1] + 0.1 * data[i + 2]) / cell / cell;
      }
      return { width, height, cells };
    };
    const [a, b] = [await read(pictures[0]), await read(pictures[1])];
    if (a.width !== b.width || a.height !== b.height) return 1;
    return a.cells.filter((v, i) => Math.abs(v - b.cells[i]) > apart).length / a.cells.length;
  }, [pictures, cell, apart]);
}
