// Package server is weir's serving process as a library: [New] assembles it from a configuration and binds its ports, [Server.Run]
// loads the models and answers requests until its context ends, and [Server.Close] ends it at once, or releases what a server that never ran
// holds. Flags, signals and help texts are the business of cmd/weir.
//
// It connects packages that do not know each other: the edge (api), the engines, the routing to other servers, the store,
// metrics and logs. What of it stands alone has a package below: local (a model in this process), folder (versions in the models
// folder), keychain (keys of the store), state (where the store and weir's own files are).
package server
