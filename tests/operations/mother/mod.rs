//! Mothers' profiles.

mod update_mother_profile;
