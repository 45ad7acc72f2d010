"""Files of OpenStreetMap whose objects keep their ids: maps read, changes and tasks written."""
