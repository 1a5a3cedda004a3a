"""Judge audits: known damages, nuisances, attacks and blind controls made of real outputs, and the run that asks judges
about them. What the answers say is `analysis/audit`'s."""
