// Package folder opens the models folder: what names its versions, what of their records the configuration takes over, and
// how versions come in from registries and hubs.
package folder
