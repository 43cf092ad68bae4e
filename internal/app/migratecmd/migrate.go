// Package migratecmd leaves the x-delayed-message plugin, step by step: delayer migrate.
package migratecmd

// Command is `delayer migrate`.
type Command struct {
	Assess   assessCmd   `cmd:"" help:"1. Look at what there is, and say what a migration needs and what stands in its way. It changes nothing."`
	Prepare  prepareCmd  `cmd:"" help:"2. Declare what the new backend needs beside the old exchange. Repeating it changes nothing."`
	Switch   switchCmd   `cmd:"" help:"3. Let the exchange change hands, in place or to delayer serve. What waits in the plugin is still delivered."`
	Drain    drainCmd    `cmd:"" help:"4. Wait until the plugin has delivered all that it has."`
	Evacuate evacuateCmd `cmd:"" help:"4. Or move what waits in the plugin to the new backend, now. It may be stopped, or killed, and run again."`
	Retire   retireCmd   `cmd:"" help:"5. Prove that the plugin is not needed for an exchange any more, and remove what is left of the migration."`
	Status   statusCmd   `cmd:"" help:"At any time: show which step each exchange is in, and what is next."`
	Rollback rollbackCmd `cmd:"" help:"Until step 5: make the exchange the plugin's again."`
}
