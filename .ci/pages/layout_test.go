package pages

import (
	_ "embed"
)

// layout is a function of the page that says what is wrong with how it lies: "" is nothing. Playwright's views are held to it, too.
//
//go:embed layout.js
var layout string
