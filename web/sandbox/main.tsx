import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { applyTheme } from "@/lib/theme";

import { App } from "./app";
import "./styles.css";

applyTheme();
createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
