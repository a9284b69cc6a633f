// What the checker has to know besides the API: names of the import map that npm has no types for, and a short name.

declare module "highlight/*" {
  const module: any;
  export default module;
}

type Timer = ReturnType<typeof setTimeout> | undefined;
