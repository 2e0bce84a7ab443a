import { type ClassValue, clsx } from "clsx";
import { twMerge } from "tailwind-merge";

/** Joins class names; of two that contradict each other the later one holds. */
export const cn = (...classes: ClassValue[]): string => twMerge(clsx(classes));
