// Package folder opens the models folder: what names its versions, what of their records the configuration takes over, and
// how versions come in from registries and hubs.
//
//	models, err := folder.Open(settings)
//	v, err := models.Import(ctx, registry.Import{Name: "chat:v1", Files: files})
//	folder.TakeVersion(&served, &v) // its path and its defaults
package folder
