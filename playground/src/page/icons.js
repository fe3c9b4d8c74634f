// Inline SVG icons, so that they look the same on every machine.

const PATHS = {
  lock: "M5 9h10v8H5zM7 9V6a3 3 0 0 1 6 0v3",
  eye: "M1.500 10S5 4 10 4s8.500 6 8.500 6-3.500 6-8.500 6-8.500-6-8.500-6zM10 7.500a2.500 2.500 0 1 0 0 5 2.500 2.500 0 0 0 0-5",
  reply: "M3 4h14v9H9l-4 4v-4H3z",
  up: "M3 9h3v8H3zM6 10l4-7c1.500 0 2 1 1.800 2L11 8h5c1 0 1.500.8 1.300 1.700l-1.300 6c-.2.800-.7 1.300-1.500 1.300H6",
  down: "M3 11h3V3H3zM6 10l4 7c1.500 0 2-1 1.800-2L11 12h5c1 0 1.500-.8 1.300-1.700l-1.300-6C15.800 3.500 15.300 3 14.500 3H6",
  eyes: "M6 4.500c-1.900 0-3.400 2.500-3.400 5.500s1.500 5.500 3.400 5.500S9.400 13 9.400 10 7.900 4.500 6 4.500zM14 4.500c-1.900 0-3.400 2.500-3.400 5.500s1.500 5.500 3.400 5.500 3.400-2.500 3.400-5.500-1.500-5.500-3.400-5.500zM6.800 10.200a1 1 0 1 0 0 2 1 1 0 0 0 0-2M14.800 10.200a1 1 0 1 0 0 2 1 1 0 0 0 0-2",
  check: "M3 3h14v14H3zM6 10l3 3 5-6",
  cross: "M5 5l10 10M15 5L5 15",
  logo: "M8 3.500a6.500 6.500 0 0 0 0 13M12 3.500a6.500 6.500 0 0 1 0 13M6.500 10h7",
  download: "M10 3v9M6 8.500l4 4 4-4M4 16.500h12",
  clip: "M13.500 6.500l-5.800 5.800a1.500 1.500 0 0 0 2.100 2.100l6-6a3.300 3.300 0 0 0-4.700-4.700l-6.200 6.200a5.100 5.100 0 0 0 7.200 7.200l4.400-4.400",
  stop: "M7 2.500h6L17.500 7v6L13 17.500H7L2.500 13V7zM7 10h6",
};

/** Icon and class of each supported emoji. */
const EMOJI = {
  "+1": ["up", ""], thumbsup: ["up", ""], "-1": ["down", ""], eyes: ["eyes", ""],
  white_check_mark: ["check", "success"], x: ["cross", "failure"], octagonal_sign: ["stop", "failure"],
};

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

export function icon(name, className = "") {
  const svg = document.createElementNS(SVG_NAMESPACE, "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("aria-hidden", "true");
  if (className) svg.setAttribute("class", className);
  const path = document.createElementNS(SVG_NAMESPACE, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

/** Renders an emoji as an icon, or as its name if there is none. */
export function emoji(name) {
  const entry = Object.hasOwn(EMOJI, name) ? EMOJI[name] : null;
  return entry ? icon(...entry) : document.createTextNode(`:${name}:`);
}
