// Package web is what browsers are shown: the playground, on the API listener, and the console, on the admin listener. Its pages are
// plain HTML, CSS and ES modules below files/, embedded as they are: nothing is built, and nothing is asked of another host.
//
//	files/lib         what pages share: components, plots, reading of streams, style; files/lib/README.md tells its interface
//	files/playground  the playground
//	files/console     the console
//	files/docs        what the API listener serves, of package openapi
//
// A page is served at /NAME/, its files below /NAME/assets/VERSION/, which browsers keep for as long as they like: VERSION is the digest
// of all files. Scripts and styles come from files alone, as the Content-Security-Policy demands, and no text becomes HTML.
package web
