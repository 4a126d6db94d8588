// What pages are drawn with: Preact and htm, from one vendored file.
export {
  h, html, render, Component, createContext, useState, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useContext, useReducer, useErrorBoundary,
} from "./preact.js";
