//! Integer keys that are not a `BIGINT`.

use opaque_id_diesel::Id;
use opaque_id_tests::Result;
use opaque_id_tests::conformance::integers::{IntegerShop, NumberOf};

use super::*;

impl IntegerShop for DieselShop {
    type Number = Number;
    type Unsigned = UnsignedNumber;

    async fn add_number(&self, number: &NumberOf<Self>) -> Result {
        run!(self.execute(diesel::insert_into(numbers::table).values((
            numbers::id.eq(number.0),
            numbers::next_id.eq(number.1),
            numbers::team_id.eq(number.2),
        ))))?;
        Ok(())
    }

    async fn find_numbers(&self, ids: &[Internal<Number>]) -> Result<Vec<NumberOf<Self>>> {
        let numbers = numbers::table.filter(numbers::id.eq_any(ids)).order(numbers::id);
        Ok(run!(self.load(numbers))?)
    }

    read_ids! { read_number_id: Id<Number> => Internal<Number> }

    server::unsigned_calls!();
}
