package main

import (
	"errors"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/engine"
	"github.com/delayer-go/delayer/internal/migration/inventory"
)

// migrateCmd is `delayer migrate`.
type migrateCmd struct {
	Assess   migrateAssessCmd   `cmd:"" help:"1. Look at what there is, and say what a migration needs and what stands in its way. It changes nothing."`
	Prepare  migratePrepareCmd  `cmd:"" help:"2. Declare what the new backend needs beside the old exchange. Repeating it changes nothing."`
	Switch   migrateSwitchCmd   `cmd:"" help:"3. Let the exchange change hands, in place or to a bridge. What waits in the plugin is still delivered."`
	Bridge   migrateBridgeCmd   `cmd:"" help:"After switch --mode bridge: pass on what services publish to the exchange, until SIGTERM. Any number may run."`
	Drain    migrateDrainCmd    `cmd:"" help:"4. Wait until the plugin has delivered all that it has."`
	Evacuate migrateEvacuateCmd `cmd:"" help:"4. Or move what waits in the plugin to the new backend, now. It may be stopped, or killed, and run again."`
	Retire   migrateRetireCmd   `cmd:"" help:"5. Prove that the plugin is not needed for an exchange any more, and remove what is left of the migration."`
	Status   migrateStatusCmd   `cmd:"" help:"At any time: show which step each exchange is in, and what is next."`
	Rollback migrateRollbackCmd `cmd:"" help:"Until step 5: make the exchange the plugin's again."`
}

// migrateFlags are those of every step.
type migrateFlags struct {
	managedFlags `set:"wait=How long to wait for a connection, for another tool that works on the exchange, and for each answer"`
	Rabbitmqctl  string `placeholder:"COMMAND" help:"How to run rabbitmqctl on a node, such as 'kubectl exec rabbit-0 -- rabbitmqctl'. It is run without a shell."`
}

// api is the management API of a configuration.
func (f *migrateFlags) api(cfg backend.Config) (*inventory.API, error) {
	if cfg.Management == "" {
		return nil, errors.New("no management API: give --management, or management in the configuration (http://user:password@host:15672)")
	}
	settings, err := engine.Resolve(cfg.Options, "")
	if err != nil {
		return nil, err
	}
	client, vhost, err := settings.API()
	if err != nil {
		return nil, err
	}
	return inventory.New(client, vhost), nil
}
