// Package pages holds what weir shows browsers to a real browser: Chromium, led by chromedp, before a real weir. It is a module of its own,
// so that neither the browser nor chromedp is anything that weir or its tests need. .ci/pages-check runs it.
package pages
